# Completion of gorxe in fish: gorxe finds the candidates itself.
function __gorxe_complete
    set -l line (commandline -cp)
    COMP_LINE="$line" COMP_POINT=(string length -- "$line") gorxe 2>/dev/null
end
complete -c gorxe -a '(__gorxe_complete)'
