// Package nodeenv runs Node.js programs of this repository in tests, with the
// npm packages that their lock files pin.
//
// Node.js and npm themselves must be on the machine. Packages are fetched from
// the npm registry, once for each lock file, into the user cache directory;
// npm checks what it got against the hashes of the lock file. No script of a
// package is run.
package nodeenv
