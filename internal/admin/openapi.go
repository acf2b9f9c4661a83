package admin

import (
	_ "embed"
	"encoding/json"

	"github.com/labstack/echo/v4"
)

// description is OpenAPI 3.1. A test compares it with the routes and with every answer that the tests see.
//
//go:embed openapi.json
var description []byte

// openAPI answers GET /admin/openapi.json.
func openAPI(echo.Context, Token) (any, error) { return json.RawMessage(description), nil }
