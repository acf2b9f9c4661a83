package admin

// page is one part of a list.
type page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null: the last page
}

// paged cuts rows, of which one more than the limit was asked for, to a page.
func paged[R, T any](rows []R, limit int, id func(R) int64, view func(R) T) page[T] {
	p := page[T]{Data: []T{}}
	for i, r := range rows {
		if i == limit {
			next := encodeCursor(id(rows[i-1]))
			p.NextCursor = &next
			break
		}
		p.Data = append(p.Data, view(r))
	}
	return p
}
