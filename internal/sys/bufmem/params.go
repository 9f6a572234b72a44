package bufmem

// maxMappings is how many different dma-bufs this process maps at a time. The kernel allows a
// process 65,530 mappings (vm.max_map_count), and Go's heap ends the process when it gets no
// more. Twice: a quarter of that. Half: 4,096 buffers of all programs together.
const maxMappings = 8192
