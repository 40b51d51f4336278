// What one emulated core did. C linkage: tests read it too.
#pragma once
#include <stdint.h>

// Lines are the chip's: 512 bytes (2201) or 128 (3510). A line counts once for each DMA that touches
// it in *_lines, once a core in *_unique_lines.
struct EmulatedLedger {
  uint64_t loads, stores, load_bursts, store_bursts, load_bytes, store_bytes;
  uint64_t load_lines, store_lines, load_unique_lines, store_unique_lines;
  uint64_t large_dma_bytes;  // moved by DMAs of 16 KiB or more
  uint64_t scalar_reads, vector_ops, vector_bytes;
};
