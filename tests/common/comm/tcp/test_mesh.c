/* The tests of test_tcp.c where common/ forms the group itself. A build with extras/ leaves that to
 * extras/on_demand, so that no test of one would run tcp_mesh.c's connect_all. */
#include "common/base/comfort.h"
#include "common/comm/tcp/tcp_mesh.h"

#define has_extras false

bool __wrap_on_demand_form(Mesh *mesh, const ProcessGroup *pg);

bool __wrap_on_demand_form(Mesh *mesh, const ProcessGroup *pg)
{
    (void)mesh, (void)pg;
    return false;
}

#include "tests/common/comm/tcp/test_tcp.c"
