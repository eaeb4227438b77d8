# The environment that tests start from: of what is around them, where programs and folders are, what builds,
# and how the network is reached; nothing else that Python, pip or the library would read.

reaches_network() {
    case $1 in
    *_proxy | *_PROXY | SSL_CERT_* | *_CA_BUNDLE | GIT_SSL_CAINFO) ;;
    PIP_CERT | PIP_*INDEX* | PIP_FIND_LINKS | PIP_TRUSTED_HOST | PIP_DEFAULT_TIMEOUT | PIP_RETRIES) ;;
    *) return 1 ;;
    esac
}

for name in $(compgen -e); do
    case $name in
    PATH | LD_LIBRARY_PATH | HOME | PWD | TMPDIR | XDG_CACHE_HOME | USER | TERM) ;;
    CC | CFLAGS | LDFLAGS | CPATH | C_INCLUDE_PATH | LIBRARY_PATH | PKG_CONFIG_PATH | CMAKE_* | CCACHE_*) ;;
    CTEST_PARALLEL_LEVEL | MLX_UPSTREAM_PYTHON | PYTHON | BUILT) ;;
    *) reaches_network "$name" || unset "$name" ;;
    esac
done
export LC_ALL=C.UTF-8
