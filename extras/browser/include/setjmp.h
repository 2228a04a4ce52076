/* For a field of Mesh (common/comm/tcp/tcp_mesh.h): here no group survives an error. */
typedef int jmp_buf[1];
