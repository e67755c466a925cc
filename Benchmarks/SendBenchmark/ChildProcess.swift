import Glibc
import Reactor

/// A child process. The parent reads its standard output, and learns its CPU time after its end.
struct ChildProcess {
    let identifier: pid_t
    private let output: UnsafeMutablePointer<FILE>?
    /// The child's standard input. `serve` and `relay` end when the parent closes it.
    private let input: Int32

    init(_ words: [String]) throws(SystemError) {
        var outputEnds: [Int32] = [0, 0]
        var inputEnds: [Int32] = [0, 0]
        guard pipe(&outputEnds) == 0, pipe(&inputEnds) == 0 else {
            throw SystemError(code: errno, operation: "pipe")
        }
        for end in outputEnds + inputEnds { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, outputEnds[1], 1)
        posix_spawn_file_actions_adddup2(&actions, inputEnds[0], 0)
        var vector: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        vector.append(nil)
        defer { for word in vector { free(word) } }
        var child: pid_t = 0
        let result = posix_spawnp(&child, words[0], &actions, nil, vector, environ)
        close(outputEnds[1])
        close(inputEnds[0])
        guard result == 0 else { throw SystemError(code: result, operation: "posix_spawn") }
        identifier = child
        output = fdopen(outputEnds[0], "r")
        input = inputEnds[1]
    }

    func readLine() -> String? {
        var line = [CChar](repeating: 0, count: 65_536)
        guard let output, fgets(&line, Int32(line.count), output) != nil else { return nil }
        return String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Waits for the child's end. Returns the rest of its output and its CPU time in microseconds, or nil if it failed.
    func wait() -> (lines: [String], cpuMicroseconds: Int64)? {
        var lines: [String] = []
        while let line = readLine() { lines.append(line) }
        if let output { fclose(output) }
        close(input)
        var status: Int32 = 0
        var usage = rusage()
        guard wait4(identifier, &status, 0, &usage) == identifier, status == 0 else { return nil }
        return (lines, ProcessSample.microseconds(usage.ru_utime) + ProcessSample.microseconds(usage.ru_stime))
    }

    /// Closes the child's standard input and waits for its end.
    func end() {
        close(input)
        if let output { fclose(output) }
        var status: Int32 = 0
        waitpid(identifier, &status, 0)
    }
}
