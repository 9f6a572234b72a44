# Completion of gorxe in bash: gorxe finds the candidates itself.
complete -o default -o bashdefault -C gorxe gorxe
