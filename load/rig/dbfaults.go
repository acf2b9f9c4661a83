package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// SetTraps puts a trigger that does nothing before each statement which writes to one of the tables.
func (d *Database) SetTraps(ctx context.Context, tables []string) error {
	if err := d.Trap(ctx, ""); err != nil {
		return err
	}
	var all strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&all, "CREATE TRIGGER trap BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION trap();\n", t)
	}
	return d.Exec(ctx, all.String())
}

// Trap says what the traps do: a statement of PL/pgSQL, or nothing. It takes no lock that anybody's statement waits for.
func (d *Database) Trap(ctx context.Context, statement string) error {
	return Await(ctx, 20*time.Second, func() error { // the server may be on its way back
		return d.Exec(ctx, "CREATE OR REPLACE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $trap$ BEGIN "+statement+" RETURN NULL; END $trap$")
	})
}

// LockRows locks what a query for update names, in a transaction that stays open until it is undone.
// A database that is read-only by default is no hindrance.
func (d *Database) LockRows(ctx context.Context, query string) (undo func() error, err error) {
	var conn *pgx.Conn
	if err := Await(ctx, 20*time.Second, func() (err error) { // the server may be on its way back
		conn, err = pgx.Connect(ctx, d.URL)
		return err
	}); err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	undo = func() error {
		_ = conn.Close(context.WithoutCancel(ctx)) // the server may have gone, and the locks with it
		return nil
	}
	if _, err := conn.Exec(ctx, "BEGIN READ WRITE; "+query); err != nil {
		return nil, errors.Join(fmt.Errorf("lock rows: %w", err), undo())
	}
	return undo, nil
}

// snapshot is the name of the copy.
func (d *Database) snapshot() string { return d.name + "_snapshot" }

// Snapshot copies the database as it is. Nobody can be in it meanwhile, so its sessions end.
func (d *Database) Snapshot(ctx context.Context) (err error) {
	if err := d.exec(ctx, "ALTER DATABASE "+d.name+" ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.exec(ctx, "ALTER DATABASE "+d.name+" ALLOW_CONNECTIONS true")) }()
	return Await(ctx, 10*time.Second, func() error { // a session takes a moment to end
		if err := d.exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+d.name+"'"); err != nil {
			return err
		}
		return d.exec(ctx, "CREATE DATABASE "+d.snapshot()+" TEMPLATE "+d.name)
	})
}

// Restore puts the snapshot in the place of the database. What was written since is gone.
func (d *Database) Restore(ctx context.Context) error {
	if err := d.exec(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)"); err != nil {
		return err
	}
	return d.exec(ctx, "ALTER DATABASE "+d.snapshot()+" RENAME TO "+d.name)
}
