// floor: the cheapest programs that could do a part of our work, measured in the same run as ours.
//   floor run KEY VALUE RECORD READY   keeps run-time statistics on, attaches the floor programs, creates the file READY, stays
//   floor names ID...            "ID NAME" of each loaded program: what it is attached to, else its name
// The programs are written as instructions, so that nothing but a C compiler is needed. Statistics are on for as long as
// this process holds their descriptor: the kernel turns them off even if it is killed.
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned char *btf;
static size_t btf_len;
static char log_buffer[65536];

static int bpf(int command, union bpf_attr *attr) { return (int)syscall(SYS_bpf, command, attr, sizeof *attr); }
static void die(const char *what) { fprintf(stderr, "floor: %s: %s\n%s", what, strerror(errno), log_buffer); exit(1); }

static void read_btf(void) {
  int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY);
  struct stat s;
  if (fd < 0 || fstat(fd, &s)) die("/sys/kernel/btf/vmlinux");
  btf = malloc((size_t)s.st_size);
  for (ssize_t n; btf && btf_len < (size_t)s.st_size; btf_len += (size_t)n)
    if ((n = read(fd, btf + btf_len, (size_t)s.st_size - btf_len)) <= 0) die("read BTF");
  close(fd);
}

// The number of the type with that name; or, with `name` NULL, the name of the type with that number.
static uint32_t walk(const char *name, uint32_t number, const char **found) {
  const struct btf_header *h = (void *)btf;
  const unsigned char *at = btf + h->hdr_len + h->type_off, *end = at + h->type_len;
  const char *strings = (char *)btf + h->hdr_len + h->str_off;
  for (uint32_t id = 1; at < end; id++) {
    const struct btf_type *t = (void *)at;
    uint32_t n = BTF_INFO_VLEN(t->info), size = sizeof *t;
    switch (BTF_INFO_KIND(t->info)) {
    case BTF_KIND_INT: case BTF_KIND_VAR: case BTF_KIND_DECL_TAG: size += 4; break;
    case BTF_KIND_ARRAY: size += sizeof(struct btf_array); break;
    case BTF_KIND_STRUCT: case BTF_KIND_UNION: case BTF_KIND_DATASEC: case BTF_KIND_ENUM64: size += n * 12; break;
    case BTF_KIND_ENUM: case BTF_KIND_FUNC_PROTO: size += n * 8; break;
    }
    if (name ? BTF_INFO_KIND(t->info) == BTF_KIND_TYPEDEF && !strcmp(strings + t->name_off, name) : id == number) {
      if (found) *found = strings + t->name_off;
      return id;
    }
    at += size;
  }
  return 0;
}

static int map(uint32_t type, uint32_t key, uint32_t value, uint32_t entries) {
  union bpf_attr a;
  memset(&a, 0, sizeof a);
  a.map_type = type; a.key_size = key; a.value_size = value; a.max_entries = entries;
  int fd = bpf(BPF_MAP_CREATE, &a);
  if (fd < 0) die("create a map");
  return fd;
}

#define I(c, d, s, o, i) ((struct bpf_insn){.code = c, .dst_reg = d, .src_reg = s, .off = o, .imm = i})
static struct bpf_insn code[256];
static int length;
static void put(struct bpf_insn i) { code[length++] = i; }
static void put_map(int fd) { put(I(0x18, 1, BPF_PSEUDO_MAP_FD, 0, fd)); put(I(0, 0, 0, 0, 0)); }

// One update of a key and a value of zeros, both on the stack.
static void put_update(int fd, int key, int value) {
  put(I(0xb7, 1, 0, 0, 0));
  for (int at = 8; at <= key + value; at += 8) put(I(0x7b, 10, 1, (int16_t)-at, 0));
  put_map(fd);
  put(I(0xbf, 2, 10, 0, 0)); put(I(0x07, 2, 0, 0, -key));
  put(I(0xbf, 3, 10, 0, 0)); put(I(0x07, 3, 0, 0, -key - value));
  put(I(0xb7, 4, 0, 0, 0)); put(I(0x85, 0, 0, 0, BPF_FUNC_map_update_elem));
}

// One lookup of the address of the tracepoint's first argument.
static void put_lookup(int fd) {
  put(I(0x79, 1, 1, 0, 0)); put(I(0x7b, 10, 1, -8, 0));
  put_map(fd);
  put(I(0xbf, 2, 10, 0, 0)); put(I(0x07, 2, 0, 0, -8));
  put(I(0x85, 0, 0, 0, BPF_FUNC_map_lookup_elem));
}

// A record, reserved and submitted without waking the reader.
static void put_record(int fd, int record) {
  put_map(fd);
  put(I(0xb7, 2, 0, 0, record)); put(I(0xb7, 3, 0, 0, 0)); put(I(0x85, 0, 0, 0, BPF_FUNC_ringbuf_reserve));
  put(I(0x15, 0, 0, 5, 0));
  put(I(0xb7, 1, 0, 0, 0)); put(I(0x7b, 0, 1, 0, 0));
  put(I(0xbf, 1, 0, 0, 0)); put(I(0xb7, 2, 0, 0, BPF_RB_NO_WAKEUP)); put(I(0x85, 0, 0, 0, BPF_FUNC_ringbuf_submit));
}

// Loads what has been put, attaches it and begins anew. Descriptors stay open as long as we live.
static void attach(const char *name, const char *tracepoint) {
  char type[64];
  snprintf(type, sizeof type, "btf_trace_%s", tracepoint);
  put(I(0xb7, 0, 0, 0, 0)); put(I(0x95, 0, 0, 0, 0));
  union bpf_attr a;
  memset(&a, 0, sizeof a);
  a.prog_type = BPF_PROG_TYPE_TRACING; a.expected_attach_type = BPF_TRACE_RAW_TP; a.attach_btf_id = walk(type, 0, NULL);
  a.insns = (uint64_t)code; a.insn_cnt = (uint32_t)length; a.license = (uint64_t)"GPL";
  a.log_buf = (uint64_t)log_buffer; a.log_size = sizeof log_buffer; a.log_level = 1;
  strncpy(a.prog_name, name, sizeof a.prog_name - 1);
  int program = bpf(BPF_PROG_LOAD, &a);
  if (program < 0) die(name);
  memset(&a, 0, sizeof a);
  a.raw_tracepoint.prog_fd = (uint32_t)program;
  if (bpf(BPF_RAW_TRACEPOINT_OPEN, &a) < 0) die(name);
  length = 0;
}

static int run(int key, int value, int record, const char *ready) {
  key = (key + 7) / 8 * 8; value = (value + 7) / 8 * 8;
  if (key < 8 || key > 256 || value < 8 || value > 128 || record < 8 || record > 65536) return 2;
  union bpf_attr a;
  memset(&a, 0, sizeof a);
  a.enable_stats.type = BPF_STATS_RUN_TIME;
  if (bpf(BPF_ENABLE_STATS, &a) < 0) die("turn on statistics");
  int counts = map(BPF_MAP_TYPE_PERCPU_HASH, (uint32_t)key, (uint32_t)value, 64), size = 4 << 20;
  int flows = map(BPF_MAP_TYPE_LRU_HASH, 8, 64, 8192), ring = map(BPF_MAP_TYPE_RINGBUF, 0, 0, (uint32_t)size);
  attach("floor_empty", "kfree_skb");
  put_update(counts, key, value); attach("floor_hash", "kfree_skb");
  put_update(counts, key, value); put_record(ring, record); attach("floor_ring", "kfree_skb");
  attach("floor_empty_tcp", "tcp_probe");
  put_lookup(flows); attach("floor_lookup", "tcp_probe");
  long page = sysconf(_SC_PAGESIZE);
  uint64_t *consumed = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
  uint64_t *produced = mmap(NULL, (size_t)page, PROT_READ, MAP_SHARED, ring, page);
  if (consumed == MAP_FAILED || produced == MAP_FAILED) die("map the ring");
  if (creat(ready, 0600) < 0) die(ready);
  // Reads nothing, but keeps the ring from filling.
  for (;; usleep(5000)) __atomic_store_n(consumed, __atomic_load_n(produced, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

static int names(int n, char **ids) {
  for (int i = 0; i < n; i++) {
    union bpf_attr a;
    struct bpf_prog_info info;
    memset(&a, 0, sizeof a); memset(&info, 0, sizeof info);
    a.prog_id = (uint32_t)strtoul(ids[i], NULL, 10);
    int fd = bpf(BPF_PROG_GET_FD_BY_ID, &a);
    if (fd < 0) continue;
    memset(&a, 0, sizeof a);
    a.info.bpf_fd = (uint32_t)fd; a.info.info_len = sizeof info; a.info.info = (uint64_t)&info;
    if (bpf(BPF_OBJ_GET_INFO_BY_FD, &a) < 0) die("name a program");
    // The kernel cuts names after 15 characters; the tracepoint is whole.
    const char *name = info.name, *found = NULL;
    if (strncmp(name, "floor", 5) && info.attach_btf_id && walk(NULL, info.attach_btf_id, &found) && !strncmp(found, "btf_trace_", 10)) name = found + 10;
    printf("%s %s\n", ids[i], name);
    close(fd);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  read_btf();
  if (!strcmp(argv[1], "run") && argc == 6) return run(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), argv[5]);
  return !strcmp(argv[1], "names") ? names(argc - 2, argv + 2) : 2;
}
