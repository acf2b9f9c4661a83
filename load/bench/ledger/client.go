package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Client reads a ledger in another process.
type Client struct{ URL string }

// Summary reads the ledger in short.
func (c Client) Summary(ctx context.Context) (s Summary, err error) {
	err = c.get(ctx, "/ledger/summary", func(d *json.Decoder) error { return d.Decode(&s) })
	return s, err
}

// Orders reads all orders.
func (c Client) Orders(ctx context.Context) (all []Order, err error) {
	err = c.get(ctx, "/ledger/orders", func(d *json.Decoder) error {
		for {
			var o Order
			if err := d.Decode(&o); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			all = append(all, o)
		}
	})
	return all, err
}

func (c Client) get(ctx context.Context, path string, read func(*json.Decoder) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	defer res.Body.Close()
	if err := read(json.NewDecoder(res.Body)); err != nil {
		return fmt.Errorf("read the ledger: %s: %w", path, err)
	}
	return nil
}
