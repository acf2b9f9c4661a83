// Package e2e proves the service from the outside: the real binary as a child process, a real Kafka, a real Postgres and a
// provider that does to each order what the test says.
//
// It knows only what docs and operators know: settings, topics, headers, HTTP, tables, exit codes. It calls no code of the
// service to make something happen, never sleeps for a fixed time, and kills only the processes that it started.
package e2e
