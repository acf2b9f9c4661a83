package admin

import (
	"slices"
	"strings"

	"example.com/billing/internal/platform/kafkaclient"
	"example.com/billing/internal/retry"
)

// credentials are parts of names of headers that let somebody in: nobody needs to see their values here.
var credentials = []string{"authorization", "cookie", "token", "secret", "password", "passwd", "credential", "apikey", "api-key", "api_key", "signature"}

// mayShow decides about one header. Ours hold nothing of a customer. A producer's may hold anything, an e-mail address or a
// customer id, say: like the payload it is for operators. BILLING_ADMIN_SHOW_HEADERS names those that everybody may see.
func (s *Server) mayShow(name string, role Role) bool {
	lower := strings.ToLower(name)
	switch {
	case retry.Ours(name), slices.ContainsFunc(s.cfg.ShowHeaders, func(shown string) bool { return strings.EqualFold(shown, name) }):
		return true
	case role < Operator:
		return false
	}
	return !slices.ContainsFunc(credentials, func(part string) bool { return strings.Contains(lower, part) })
}

func (s *Server) viewRecord(m kafkaclient.Message, role Role) *recordView {
	v := &recordView{Timestamp: m.Timestamp.UTC(), Headers: []headerView{}}
	for _, h := range m.Headers {
		if s.mayShow(h.Key, role) {
			v.Headers = append(v.Headers, headerView{h.Key, viewBytes(h.Value)})
		} else {
			v.HiddenHeaders++
		}
	}
	return v
}
