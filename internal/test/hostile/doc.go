// Package hostile attacks devices as hosts could, beside an honest connection. The honest
// connection is the judge: its messages arrive, and are what was sent.
package hostile
