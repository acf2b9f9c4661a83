package main

import (
	"slices"
	"time"
)

// spread is how a time is distributed.
type spread struct {
	Program string        `json:"program"`
	Count   int           `json:"count"`
	Least   time.Duration `json:"least_ns"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Most    time.Duration `json:"most_ns"`
}

func spreadOf(program string, all []time.Duration) spread {
	if len(all) == 0 {
		return spread{Program: program}
	}
	slices.Sort(all)
	return spread{Program: program, Count: len(all), Least: all[0], P50: all[len(all)/2], P99: all[len(all)*99/100], Most: all[len(all)-1]}
}
