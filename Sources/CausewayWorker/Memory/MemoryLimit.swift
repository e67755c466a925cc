/// How much memory this process may use before the kernel kills it.
struct MemoryLimit {
    var controlGroups = ControlGroups()

    /// In cgroup version 1, this number or a larger one means that there is no limit. Without a limit, the kernel shows
    /// 9,223,372,036,854,771,712.
    private static let unlimitedBytesMin: Int64 = 1 << 60

    /// The smallest limit of the process's group and its enclosing groups; nil if no limit can be read.
    var bytes: Int64? {
        let texts =
            controlGroups.readVersion2Files("memory.max")
            + controlGroups.readVersion1MemoryFiles("memory.limit_in_bytes")
        return
            texts.compactMap { text in
                text.split(whereSeparator: \.isWhitespace).first.flatMap { Int64($0) }
                    .flatMap { (1..<Self.unlimitedBytesMin).contains($0) ? $0 : nil }
            }
            .min()
    }
}
