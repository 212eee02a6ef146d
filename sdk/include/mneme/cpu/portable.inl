// What follows in this file is for any processor, with vectors of 16 bytes.
#define MNEME_VECTOR_BYTES 16
