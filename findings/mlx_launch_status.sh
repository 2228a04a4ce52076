#!/bin/sh
# Tool:  mlx.launch of mlx 0.32.4 (its CPU wheel for Linux)
# Guess: if rank 1 ends with 3, mlx.launch ends with 3, or at least not with 0: mpirun and torchrun tell of it by their status.
# Seen:  it warns, ends rank 0, and ends with 0: to a script or a scheduler the job has done its work.
# > Node with rank 1 exited with code 3
# > mlx.launch ends with 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install "mlx[cpu]==0.32.4"

cat >"$tmp/rank.sh" <<'EOF'
#!/bin/sh
[ "$MLX_RANK" = 0 ] || exit 3
exec sleep 100
EOF
chmod +x "$tmp/rank.sh"
status=0
mlx.launch -n 2 -- "$tmp/rank.sh" >"$tmp/out" 2>"$tmp/errors" </dev/null || status=$?
{
    cat "$tmp/out" "$tmp/errors" | grep -o 'Node with rank 1 exited with code [0-9]*'
    echo "mlx.launch ends with $status"
} | verdict
