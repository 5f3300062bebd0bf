// Package rules holds what every change to this repository must keep, as
// tests: which package may import which and why, that every package is
// documented, that no test waits by sleeping, and what the modules may say.
// A rule that is broken says what is wrong and the reason for the rule.
package rules
