// Package demo shows everything on one machine: a NATS server in this process,
// three candidates as processes of their own, two workers and a subscriber that
// follows the log. It takes the leadership from one candidate after the other,
// cleanly and by force, and measures how long nobody led.
package demo
