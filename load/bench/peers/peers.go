// Package peers holds the programs that the service is measured against. They read the same events from the same topic
// with the same Kafka client, POST to the same provider and write to the same database.
//
// Loop is what a competent team would write from the design document in a day. Floor is what no program can be much faster
// than: it keeps no promise at all. Neither is an example to follow.
package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is where a peer works.
type Config struct {
	Brokers, Topic, Group string
	DatabaseURL           string
	ProviderURL           string
	InFlight              int // Floor only
}

// FromEnvironment reads what Environment wrote.
func FromEnvironment() (Config, error) {
	n, err := strconv.Atoi(os.Getenv("PEER_IN_FLIGHT"))
	if err != nil {
		return Config{}, fmt.Errorf("PEER_IN_FLIGHT: %w", err)
	}
	return Config{
		Brokers: os.Getenv("PEER_BROKERS"), Topic: os.Getenv("PEER_TOPIC"), Group: os.Getenv("PEER_GROUP"),
		DatabaseURL: os.Getenv("PEER_DATABASE_URL"), ProviderURL: os.Getenv("PEER_PROVIDER_URL"), InFlight: n,
	}, nil
}

// Environment hands the settings to a child process.
func (c Config) Environment() []string {
	return []string{
		"PEER_BROKERS=" + c.Brokers, "PEER_TOPIC=" + c.Topic, "PEER_GROUP=" + c.Group, "PEER_DATABASE_URL=" + c.DatabaseURL,
		"PEER_PROVIDER_URL=" + c.ProviderURL, "PEER_IN_FLIGHT=" + strconv.Itoa(c.InFlight),
	}
}

// order is the design document's event.
type order struct {
	EventID     string      `json:"event_id"`
	OrderID     string      `json:"order_id"`
	CustomerID  string      `json:"customer_id"`
	TotalAmount json.Number `json:"total_amount"`
	Currency    string      `json:"currency"`
}

// peer is what both programs are made of.
type peer struct {
	cfg      Config
	consumer *kafka.Consumer
	pool     *pgxpool.Pool
	client   *http.Client
}

func newPeer(ctx context.Context, cfg Config, schema string, settings kafka.ConfigMap) (*peer, error) {
	pool, err := pgxpool.New(ctx, cfg.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		pool.Close()
		return nil, fmt.Errorf("make the table: %w", err)
	}
	settings["bootstrap.servers"] = cfg.Brokers
	settings["group.id"] = cfg.Group
	settings["auto.offset.reset"] = "earliest"
	consumer, err := kafka.NewConsumer(&settings)
	if err == nil {
		err = consumer.Subscribe(cfg.Topic, nil)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the topic: %w", err)
	}
	transport := &http.Transport{MaxIdleConns: cfg.InFlight, MaxIdleConnsPerHost: cfg.InFlight, MaxConnsPerHost: cfg.InFlight}
	return &peer{cfg, consumer, pool, &http.Client{Transport: transport, Timeout: 30 * time.Second}}, nil
}

func (p *peer) close() error {
	p.pool.Close()
	return p.consumer.Close()
}

// charge sends one order to the provider and returns the id of the charge.
func (p *peer) charge(ctx context.Context, o order) (string, error) {
	if o.Currency == "" {
		o.Currency = "EUR"
	}
	body, err := json.Marshal(map[string]string{"reference": o.OrderID, "customer_id": o.CustomerID, "amount": o.TotalAmount.String(), "currency": o.Currency})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.cfg.ProviderURL+"/v1/charges", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", o.OrderID)
	res, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return "", fmt.Errorf("order %s: the provider answered %s", o.OrderID, res.Status)
	}
	var charge struct{ ID string }
	if err := json.NewDecoder(res.Body).Decode(&charge); err != nil {
		return "", fmt.Errorf("order %s: read the answer: %w", o.OrderID, err)
	}
	return charge.ID, nil
}
