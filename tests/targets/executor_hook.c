// A library that PostgreSQL loads: its function is called with the description of each query before it runs.
#include <postgres.h>
#include <executor/executor.h>
#include <fmgr.h>

PG_MODULE_MAGIC;
void _PG_init(void);

static ExecutorStart_hook_type before;

__attribute__((noinline, noipa, visibility("default"))) void query_starts(QueryDesc *queryDesc, int eflags) {
  if (before)
    before(queryDesc, eflags);
  else
    standard_ExecutorStart(queryDesc, eflags);
}

void _PG_init(void) {
  before = ExecutorStart_hook;
  ExecutorStart_hook = query_starts;
}
