// Package output prints for people: aligned, wrapped to the terminal's width,
// bold headings on a terminal that wants them, and never a control character
// that came from outside.
package output
