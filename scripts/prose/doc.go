// Command prose checks the English of this project: Markdown, comments in Go, shell, make
// and YAML files, and the messages in Go strings. It prints one line for each fault, as a
// compiler does, and exits with 1 if there is one.
//
//	go run ./scripts/prose              # all files of the checkout
//	go run ./scripts/prose rxe docs     # only these
//	go run ./scripts/prose -grade       # the readability of each file
//	go run ./scripts/prose -wrap        # lines of more than 100 columns, in Markdown and Go comments
//	go run ./scripts/prose -wrap -write # break them
//
// The rules are data: rules.txt lists them, each with a sentence that breaks it and one
// that does not. The file unchecked.txt, if there is one, lists what is not checked yet.
package main
