// Package manual makes the manual pages from the command line's own definitions, and
// holds the help topics: what is not a command, such as doorbells.
package manual
