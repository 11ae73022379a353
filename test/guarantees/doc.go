// Package guarantees holds GUARANTEES.md against the code: every promise names
// tests that exist.
package guarantees
