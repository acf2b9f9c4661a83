// Package archtest keeps the shape of the repository: imports go down only, each library has one door, and what people read
// stays small. It holds tests and nothing else; a rule that must change is changed in rules_test.go, in view of everyone.
package archtest
