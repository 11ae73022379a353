// Package check holds the tests of everything in deploy: each file is read by the
// library of the program that it is made for, and what can run on one machine
// runs. It is a module of its own so that Toolbridge's users do not get these
// libraries.
//
// The plain tests need Go only. TOOLBRIDGE_DEPLOY=require makes a missing program
// (systemd-analyze, prometheus, promtool) a failure in place of a skip, and
// TOOLBRIDGE_LONG=1 runs the whole pipeline.
package check
