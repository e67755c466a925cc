import CHiredis
import Glibc

/// Formats a Redis command with hiredis, and passes its bytes to `body`. Returns whether memory could be allocated. The
/// bytes are cleared afterwards, because they may include a password.
///
/// Only rare commands use this function, because it allocates memory: a connection's own commands, look-ups of servers,
/// and commands of code outside the lanes. ``RedisCommandWriter`` writes the lanes' calls.
func withCommandText(_ arguments: [[UInt8]], _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
    let lengths = arguments.map(\.count)
    var bytes = arguments.flatMap(\.self)
    var formattedCommand: UnsafeMutablePointer<CChar>?
    let length = bytes.withUnsafeMutableBytes { memory -> Int32 in
        defer { if let start = memory.baseAddress { explicit_bzero(start, memory.count) } }
        var pointers: [UnsafePointer<CChar>?] = []
        var offset = 0
        for length in lengths {
            pointers.append(memory.baseAddress.map { UnsafePointer(($0 + offset).assumingMemoryBound(to: CChar.self)) })
            offset += length
        }
        return redisFormatCommandArgv(&formattedCommand, Int32(arguments.count), &pointers, lengths)
    }
    guard let formattedCommand, length > 0 else { return false }
    body(UnsafeRawBufferPointer(start: formattedCommand, count: Int(length)))
    explicit_bzero(formattedCommand, Int(length))
    redisFreeCommand(formattedCommand)
    return true
}

/// Formats a Redis command whose arguments are texts, and passes its bytes to `body`. Returns whether memory could be
/// allocated.
func withCommandText(_ arguments: [String], _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
    withCommandText(arguments.map { Array($0.utf8) }, body)
}

extension RedisCredentials {
    var authenticationCommand: [String] { ["AUTH"] + (username.map { [$0] } ?? []) + [password] }
}
