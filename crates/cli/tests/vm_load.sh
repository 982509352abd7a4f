# shellcheck shell=sh
# Load of a guest that checks itself. $1 is the port of somebody outside who says what he is told.
# Each part counts what it has done in /m/NAME; what should not be is in /m/bad.
port=$1
mkdir -p /m
mount -t tmpfs none /m
cd /m || exit 1

count() {
    echo "$2" > "$1.new"
    busybox mv "$1.new" "$1"
}

bad() {
    echo "$*" >> bad
}

# Bytes that move through memory and stay what they are.
memory() {
    n=0
    sum=$(busybox md5sum < block)
    while :; do
        n=$((n + 1))
        cat block > other
        test "$(busybox md5sum < other)" = "$sum" || bad "memory is not what it was at $n"
        busybox mv other block
        count memory $n
    done
}

# Files that are written, made durable, forgotten, and read again.
disk() {
    n=0
    while :; do
        n=$((n + 1))
        file=/srv/file$((n % 8))
        if test -e $file.sum; then
            busybox md5sum -c -s $file.sum || bad "$file is not what it was at $n"
        fi
        busybox rm -f $file.sum
        busybox seq $n $((n + 9999)) > $file
        busybox md5sum $file > $file.sum
        if test $((n % 4)) = 0; then
            busybox sync
            echo 3 > /proc/sys/vm/drop_caches
        fi
        count disk $n
    done
}

# Sleeps that end, and clocks that go forwards. Who resumes sets the clock to a full second.
timer() {
    n=0 up=0 time=0
    while :; do
        n=$((n + 1))
        busybox usleep 20000
        read -r now _ < /proc/uptime
        now=${now%.*}
        test "$now" -ge "$up" || bad "uptime $now after $up"
        up=$now
        now=$(busybox date +%s)
        test "$now" -ge $((time - 1)) || bad "it was $now after $time"
        time=$now
        count timer $n
    done
}

# One connection over all of the time, in which no line is missing.
listen() {
    n=0
    while read -r line; do
        n=$((n + 1))
        test "$line" = "line $n" || bad "$line instead of $n came through lo"
        test $((n % 20)) != 0 || count lo $n
    done
    bad "the connection over lo ended after $n"
}

send() {
    n=0
    while :; do
        n=$((n + 1))
        echo "line $n" || return
        test $((n % 20)) != 0 || busybox usleep 20000
    done
}

# Somebody outside answers. A connection that a suspend cuts may end without an answer.
outside() {
    n=0 answered=0
    while :; do
        n=$((n + 1))
        answer=$(echo $n | busybox timeout 3 busybox nc 10.0.2.2 "$port" 2> /dev/null)
        case $answer in
            "$n")
                answered=$((answered + 1))
                count outside $answered
                ;;
            '') ;;
            *) bad "$answer instead of $n from outside" ;;
        esac
        busybox usleep 20000
    done
}

busybox dd if=/dev/urandom of=block bs=1M count=4 2> /dev/null
for part in memory disk timer lo outside; do
    echo 0 > $part
done
memory &
disk &
timer &
# It ends with its input, which never does.
busybox mkfifo open
exec 3<> open
busybox nc -l -p 7777 <&3 | listen &
until busybox netstat -ltn | grep -q :7777; do busybox usleep 10000; done
send | busybox nc 127.0.0.1 7777 &
outside &
wait
