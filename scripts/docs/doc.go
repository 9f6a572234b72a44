// Package docs checks what the documents of this project say about its files: that each
// file, package, test, make target and environment variable that they name exists, that
// links lead somewhere, and that the table of packages in ARCHITECTURE.md is what depguard
// enforces. It has tests only.
package docs
