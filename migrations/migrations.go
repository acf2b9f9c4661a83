// Package migrations holds the database schema, embedded in the binary. Files are numbered, forward only and never edited
// once released: `billing migrate up` applies what is missing, and `billing serve` refuses to start when it is behind.
package migrations

import "embed"

// Files are the goose migrations, in the order of their numbers.
//
//go:embed *.sql
var Files embed.FS
