// Package docs checks what the documents of this project say about its files. Each file,
// package, test, make target and environment variable that they name must exist, and
// links must lead somewhere. The table of packages in ARCHITECTURE.md must be what
// depguard enforces. The package has tests only.
package docs
