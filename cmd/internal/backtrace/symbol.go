package backtrace

import (
	"regexp"

	"github.com/ianlancetaylor/demangle"
)

// clone is what a compiler appends to the name of a function of which it made another version.
var clone = regexp.MustCompile(`(\.(constprop|isra|part|cold|lto_priv|llvm)(\.[0-9]+)*)+$`)

// readableName returns the name that the source has for a symbol of the linker: that of C++ and
// Rust without parameters, and without marks of the compiler.
func readableName(symbol string) string {
	if len(symbol) > mostName {
		return short(symbol)
	}
	symbol = clone.ReplaceAllString(symbol, "")
	return demangle.Filter(symbol, demangle.NoParams, demangle.NoEnclosingParams, demangle.MaxLength(mostNamePower))
}
