package httpprovider

import "strings"

// maxText bounds what is kept of the provider's words.
const maxText = 100

// visible is an identifier of the provider, or "" when it is not short visible ASCII: it is stored in text columns, which
// refuse a NUL, and shown to people.
func visible(s string) string {
	if len(s) > maxText || strings.ContainsFunc(s, notVisible) {
		return ""
	}
	return s
}

func notVisible(r rune) bool { return r <= ' ' || r > '~' }

// printable cuts a text and replaces what is not printable ASCII.
func printable(s string, limit int) string {
	s = s[:min(len(s), limit)]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// without drops a text that repeats one of the secrets.
func without(s string, secrets []string) string {
	lower := strings.ToLower(s)
	for _, secret := range secrets {
		if secret != "" && strings.Contains(lower, strings.ToLower(secret)) {
			return ""
		}
	}
	return s
}
