//go:build race

package e2e

// raceDetector: these tests run under the race detector, and so does the binary.
const raceDetector = true
