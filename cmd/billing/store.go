package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/billing/internal/billing/pgstore"
	"example.com/billing/internal/platform/postgres"
	"example.com/billing/migrations"
)

// openStore is the store for commands, which neither claim nor settle. Whoever opened it closes the pool.
func openStore(ctx context.Context, cfg Config, log *slog.Logger) (*pgstore.Store, *pgxpool.Pool, error) {
	pool, err := postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL, MaxConns: cfg.DatabaseMaxConns})
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.New(pgstore.Config{
		Pool: pool, Environment: cfg.Environment, Account: cfg.ProviderAccount, Lease: cfg.Lease, ProviderTimeout: cfg.ProviderTimeout, Clock: time.Now, Log: log,
	})
	if err == nil {
		err = postgres.CheckSchema(ctx, pool, migrations.Files, log)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return store, pool, nil
}
