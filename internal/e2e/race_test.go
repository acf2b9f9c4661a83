//go:build race

package e2e

// raceDetector: the binary under test is built as the tests are.
const raceDetector = true
