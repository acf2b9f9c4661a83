package main

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

// dlqLetter is what the tables show of a dead letter.
type dlqLetter struct {
	dlqPlace
	Topic    string     `json:"topic"`
	State    string     `json:"state"`
	Class    string     `json:"class"`
	Reason   string     `json:"reason"`
	Error    string     `json:"error"`
	Order    *string    `json:"order_id"`
	Amount   *string    `json:"amount"`
	Currency *string    `json:"currency"`
	DeadAt   time.Time  `json:"dead_at"`
	Replays  int        `json:"replay_count"`
	Record   *dlqRecord `json:"record"`
}

type dlqRecord struct {
	Headers []struct {
		Name string `json:"name"`
		dlqBytes
	} `json:"headers"`
	Key   *dlqBytes `json:"key"`
	Value *dlqBytes `json:"value"`
}

type dlqBytes struct {
	Text   *string `json:"text"`
	Base64 *string `json:"base64"`
}

func (b *dlqBytes) String() string {
	switch {
	case b == nil:
		return "(for operators only)"
	case b.Text != nil:
		return *b.Text
	case b.Base64 != nil:
		return "base64:" + *b.Base64
	}
	return "(null)"
}

type dlqPage struct {
	Data []dlqLetter `json:"data"`
	Next *string     `json:"next_cursor"`
}

func (p dlqPage) print(w io.Writer, topic string) error {
	table := newTable(w)
	table.row("MESSAGE", "STATE", "CLASS", "REASON", "ORDER", "AMOUNT", "DIED", "REPLAYS")
	for _, l := range p.Data {
		table.row(l.String(), l.State, l.Class, l.Reason, orDash(l.Order), l.amount(), l.DeadAt.Local().Format(time.DateTime), strconv.Itoa(l.Replays))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	end := fmt.Sprintf("%d of %s", len(p.Data), topic)
	if p.Next != nil {
		end += "; more: --cursor " + *p.Next
	}
	_, err := fmt.Fprintln(w, printable(end))
	return err
}

func (l dlqLetter) print(w io.Writer) error {
	table := newTable(w)
	table.row("message", l.Topic+" "+l.String())
	table.row("state", l.State)
	table.row("reason", l.Class+", "+l.Reason)
	table.row("error", l.Error)
	table.row("order", orDash(l.Order))
	table.row("amount", l.amount())
	table.row("died", l.DeadAt.Local().Format(time.DateTime))
	if l.Record == nil {
		table.row("record", "no longer in the topic")
		return table.Flush()
	}
	for _, h := range l.Record.Headers {
		table.row("header "+h.Name, h.String())
	}
	table.row("key", l.Record.Key.String())
	table.row("value", l.Record.Value.String())
	return table.Flush()
}

func (l dlqLetter) amount() string {
	if l.Amount == nil || l.Currency == nil {
		return "-"
	}
	return *l.Amount + " " + *l.Currency
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}
