/* Looks like NCCL 2.9, which is too old: its soname is that of NCCL. */
int ncclGetVersion(int* version) {
  *version = 20900;
  return 0;
}
int ncclGetUniqueId(void) { return 1; }
int ncclCommInitRank(void) { return 1; }
int ncclAllReduce(void) { return 1; }
int ncclReduceScatter(void) { return 1; }
int ncclAllGather(void) { return 1; }
int ncclCommDestroy(void) { return 0; }
const char* ncclGetErrorString(void) { return "no"; }
