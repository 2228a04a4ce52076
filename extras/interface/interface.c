/*
 * PyTorch's variable GLOO_SOCKET_IFNAME names the interface at which the other ranks reach this
 * machine. As there it may be a list, "ib0,eth0"; but we use one interface, the first that this
 * machine has.
 */
#include "extras/interface/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/tcp/tcp_mesh.h"

int interface_address(const char *interface, char *address, size_t bytes)
{
    static const sa_family_t families[] = { AF_INET, AF_INET6 };
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) < 0)
        return -1;
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        const socklen_t size = i == 0 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        for (const struct ifaddrs *one = all; one != NULL && !found; one = one->ifa_next)
            found = one->ifa_addr != NULL && one->ifa_addr->sa_family == families[i] &&
                    strcmp(one->ifa_name, interface) == 0 && (one->ifa_flags & IFF_UP) != 0 &&
                    getnameinfo(one->ifa_addr, size, address, (socklen_t)bytes, NULL, 0,
                                NI_NUMERICHOST) == 0 &&
                    strchr(address, '%') == NULL; // fe80::1%eth0 has a meaning only here
    }
    freeifaddrs(all);
    errno = ENODEV;
    return found ? 0 : -1;
}

bool interface_choose(char *host, size_t bytes)
{
    const char *list = getenv("GLOO_SOCKET_IFNAME"), *end = list;
    if (list == NULL || list[0] == '\0')
        return false;
    for (const char *name = list; *end != '\0'; name = end + 1) {
        char interface[64];
        end = strchrnul(name, ',');
        snprintf(interface, sizeof interface, "%.*s", (int)(end - name), name);
        if (interface_address(interface, host, bytes) == 0)
            return true;
    }
    die("GLOO_SOCKET_IFNAME is \"%s\": no interface of this machine has that name and an address; "
        "ip address shows them",
        list);
}

const char *interface_advice(void)
{
    return "; to use another network, set GLOO_SOCKET_IFNAME=eth0 or the like";
}
