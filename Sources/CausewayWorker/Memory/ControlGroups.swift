import CausewayConfiguration

/// The control groups of this process and their limits, as the kernel shows them.
struct ControlGroups {
    /// Where version 2 is mounted.
    var unified = "/sys/fs/cgroup"
    /// Where version 1 has its groups for memory.
    var memory = "/sys/fs/cgroup/memory"
    /// The file that names the process's groups.
    var membership = "/proc/self/cgroup"

    /// The longest file that is read here.
    static let fileBytesMax = 65_536
    /// The deepest nesting of groups that is read: more than any system has.
    private static let depthMax = 64

    /// The contents of a file in the process's group of version 2 and in each group around it, from the inside out.
    func unifiedTexts(_ file: String) -> [String] {
        guard let path = place("0::") else { return [] }
        return texts(file, below: unified, path)
    }

    /// The same for version 1's memory groups.
    func memoryTexts(_ file: String) -> [String] {
        let lines = Self.text(membership)?.split(separator: "\n") ?? []
        // A line is `4:memory:/path`, or names several controllers separated by commas.
        let path = lines.compactMap { line -> Substring? in
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3, parts[1].split(separator: ",").contains("memory") else { return nil }
            return parts[2].hasPrefix("/") ? parts[2].dropFirst() : nil
        }
        return path.first.map { texts(file, below: memory, $0) } ?? []
    }

    private func place(_ prefix: String) -> Substring? {
        Self.text(membership)?.split(separator: "\n").first { $0.hasPrefix(prefix + "/") }?.dropFirst(prefix.count + 1)
    }

    /// A container sees its own group as the root, whatever its membership says. So a path that does not exist is skipped.
    private func texts(_ file: String, below root: String, _ path: Substring) -> [String] {
        var path = path
        var texts: [String] = []
        for _ in 0..<Self.depthMax {
            let whole = [root, String(path), file].filter { !$0.isEmpty }.joined(separator: "/")
            if let text = Self.text(whole) { texts.append(text) }
            guard !path.isEmpty else { break }
            path = path.lastIndex(of: "/").map { path[..<$0] } ?? ""
        }
        return texts
    }

    static func text(_ path: String) -> String? {
        try? ConfigurationFile.text(path: path, bytesMax: fileBytesMax)
    }
}
