/// How much memory this process may use before the kernel ends it.
struct MemoryShare {
    var groups = ControlGroups()

    /// A number above this means no limit in version 1.
    private static let bytesMax: Int64 = 1 << 60

    /// The smallest limit of the process's group and the groups around it; nil if none has a limit.
    var limitBytes: Int64? {
        let texts = groups.unifiedTexts("memory.max") + groups.memoryTexts("memory.limit_in_bytes")
        return
            texts.compactMap { text in
                text.split(whereSeparator: \.isWhitespace).first.flatMap { Int64($0) }
                    .flatMap { (1..<Self.bytesMax).contains($0) ? $0 : nil }
            }
            .min()
    }
}
