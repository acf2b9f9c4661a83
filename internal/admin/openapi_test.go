package admin_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/billing/internal/admin"
)

// described is the OpenAPI description.
var described = sync.OnceValue(func() map[string]any {
	var d map[string]any
	text, err := os.ReadFile("openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		panic(err)
	}
	return d
})

func TestTheDescriptionHasTheRoutesAndNoOther(t *testing.T) {
	w := newWorld(t)
	s, err := admin.New(w.cfg, w.deps)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var want []string
	for path, methods := range described()["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			want = append(want, strings.ToUpper(method)+" "+path)
		}
	}
	require.ElementsMatch(t, want, s.Routes())
}

func TestTheDescriptionIsServed(t *testing.T) {
	w := newWorld(t).serve()
	r := w.get("/admin/openapi.json")
	require.Equal(t, http.StatusOK, r.status)
	require.Equal(t, "3.1.0", r.json(t)["openapi"])
}

// requireDescribed holds an answer against the description: path, method, status, content type and every field.
func requireDescribed(t *testing.T, method, path string, r response) {
	t.Helper()
	operation := operationOf(method, path)
	if operation == nil { // no such route: the problem all the same
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, r.status, "%s %s is not described", method, path)
		return
	}
	status := strconv.Itoa(r.status)
	spec, ok := operation["responses"].(map[string]any)[status].(map[string]any)
	require.True(t, ok, "%s %s: status %s is not described: %s", method, path, status, r.body)
	content, ok := resolve(spec)["content"].(map[string]any)
	if !ok {
		return
	}
	mediaType, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	media, ok := content[mediaType].(map[string]any)
	require.True(t, ok, "%s %s: %s is not described", method, path, mediaType)
	if strings.HasSuffix(mediaType, "json") {
		var v any
		require.NoError(t, json.Unmarshal(r.body, &v))
		require.Empty(t, violations(media["schema"].(map[string]any), v, "$"), "%s %s: %s", method, path, r.body)
	}
}

func operationOf(method, path string) map[string]any {
	path, _, _ = strings.Cut(path, "?")
	for template, methods := range described()["paths"].(map[string]any) {
		if regexp.MustCompile(`^` + regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`) + `$`).MatchString(path) {
			operation, _ := methods.(map[string]any)[strings.ToLower(method)].(map[string]any)
			return operation
		}
	}
	return nil
}

func resolve(m map[string]any) map[string]any {
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	at := described()
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at[step].(map[string]any)
	}
	return at
}

// violations checks what the description uses of JSON Schema: type, enum, oneOf, items, properties, required.
func violations(schema map[string]any, v any, at string) (found []string) {
	schema = resolve(schema)
	if options, ok := schema["oneOf"].([]any); ok {
		for _, o := range options {
			problems := violations(o.(map[string]any), v, at)
			if len(problems) == 0 {
				return nil
			}
			found = append(found, problems...)
		}
		return found
	}
	if !slices.Contains(typesOf(schema), kindOf(v)) {
		return []string{at + " is " + kindOf(v)}
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		found = append(found, at+" is none of the listed")
	}
	if list, ok := v.([]any); ok {
		for i, item := range list {
			found = append(found, violations(schema["items"].(map[string]any), item, at+"["+strconv.Itoa(i)+"]")...)
		}
	}
	if object, ok := v.(map[string]any); ok {
		found = append(found, fieldViolations(schema, object, at)...)
	}
	return found
}

func fieldViolations(schema, object map[string]any, at string) (found []string) {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			found = append(found, at+"."+name.(string)+" is missing")
		}
	}
	for name, value := range object {
		if p, ok := properties[name].(map[string]any); ok {
			found = append(found, violations(p, value, at+"."+name)...)
		} else if schema["additionalProperties"] == false {
			found = append(found, at+"."+name+" is not described")
		}
	}
	return found
}

func typesOf(schema map[string]any) []string {
	switch t := schema["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, one := range t {
			all = append(all, one.(string))
		}
		return all
	}
	return nil
}

func kindOf(v any) string {
	switch n := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if n == float64(int64(n)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
