// Package verdict writes what is known of a program that ran under gorxe run into a directory.
// There is a page of Markdown that says in words what happened and which side was at fault. Beside
// it are the capture, what the checker says of it, the packets as a page, and the objects, errors
// and fault rules.
package verdict
