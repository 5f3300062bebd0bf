// Package natsconn is the NATS connection of every command: its flags, their
// checks, and a connection that does not give up.
//
//	var o natsconn.Options
//	o.AddFlags(cmd.Flags())
//	...
//	if err := o.Validate(); err != nil { ... } // bad input
//	conn, err := natsconn.Connect(ctx, o, log)
//	js, err := conn.JetStream()
//
// What the connection promises:
//
//   - A server that is not there, or that refuses the credentials, is no end:
//     it is tried again for ever, ever more slowly up to a few seconds apart.
//   - Credentials, certificates and CA files are read anew at each attempt, so
//     what was rotated on disk is used by the next one.
//   - While the connection is away nothing is buffered: a publish fails at once
//     and was certainly not sent. Only a PubAck counts as published.
//   - An outage is one log line when it begins, one when it ends, and one for
//     each new cause in between that is more than "unreachable".
//   - A refusal that NATS tells only asynchronously, such as a missing publish
//     permission, can be joined with the call that failed from it (Explain).
//   - If the client library gives up all the same, Done and Err tell. Whoever
//     holds the connection must then end: it never comes back.
//
// What it does not: secrets never appear in its logs and errors, but a secret
// given as a command line argument can be seen in the machine's list of
// processes. Use files or environment variables.
package natsconn
