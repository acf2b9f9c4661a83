package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// unknownVariables names BILLING_… variables that are no setting, with the nearest known name. They are a warning, never
// an error: a Kubernetes Service named billing injects BILLING_PORT and others.
func unknownVariables(environ []string) []string {
	known := map[string]bool{}
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		known[variable(t.Field(i))] = true
		if t.Field(i).Tag.Get("file") == "true" {
			known[variable(t.Field(i))+"_FILE"] = true
		}
	}
	var warnings []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, prefix) && !known[name] && !clientVariable(name) {
			warnings = append(warnings, fmt.Sprintf("%s is not a setting; the nearest is %s", name, nearest(name, known)))
		}
	}
	slices.Sort(warnings)
	return warnings
}

// clientVariable names what only the commands that call the admin API read.
func clientVariable(name string) bool {
	return slices.Contains([]string{"BILLING_ADMIN_URL", "BILLING_ADMIN_TOKEN", "BILLING_ADMIN_TOKEN_FILE"}, name)
}

// nearest is the known name with the smallest edit distance.
func nearest(name string, known map[string]bool) string {
	best, distance := "", 1<<30
	for k := range known {
		if d := editDistance(name, k); d < distance || d == distance && k < best {
			best, distance = k, d
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
