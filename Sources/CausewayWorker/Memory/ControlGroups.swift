import CausewayConfiguration

/// The Linux control groups (cgroups) of this process and their limits, as the kernel shows them.
struct ControlGroups {
    /// Where cgroup version 2 is mounted.
    var version2Root = "/sys/fs/cgroup"
    /// Where cgroup version 1 has its memory groups.
    var version1MemoryRoot = "/sys/fs/cgroup/memory"
    /// The file that names the process's groups.
    var processGroupsFile = "/proc/self/cgroup"

    /// The maximum size of a file that is read here. The kernel's files are much smaller.
    static let fileBytesMax = 65_536
    /// The deepest nesting of groups that is read. No real system nests so deep.
    private static let depthMax = 64

    /// Returns the contents of a file in the process's version 2 group and in each enclosing group, innermost first.
    /// Leaves out the groups without this file.
    func readVersion2Files(_ file: String) -> [String] {
        guard let path = readControlGroupPath(afterPrefix: "0::") else { return [] }
        return readFiles(file, below: version2Root, path)
    }

    /// Returns the contents of a file in the process's version 1 memory group and in each enclosing group, innermost
    /// first. Leaves out the groups without this file.
    func readVersion1MemoryFiles(_ file: String) -> [String] {
        let lines = Self.readText(processGroupsFile)?.split(separator: "\n") ?? []
        // A line is `4:memory:/path`. The middle field may name several controllers, separated by commas.
        let paths = lines.compactMap { line -> Substring? in
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3, parts[1].split(separator: ",").contains("memory") else { return nil }
            return parts[2].hasPrefix("/") ? parts[2].dropFirst() : nil
        }
        return paths.first.map { readFiles(file, below: version1MemoryRoot, $0) } ?? []
    }

    private func readControlGroupPath(afterPrefix prefix: String) -> Substring? {
        Self.readText(processGroupsFile)?.split(separator: "\n").first { $0.hasPrefix(prefix + "/") }?
            .dropFirst(prefix.count + 1)
    }

    /// Returns the file's text in the group at `path` and in each enclosing group. Skips a group without the file. In a
    /// container this is usual: `path` may begin at the machine's root, but the container sees only its own group.
    private func readFiles(_ file: String, below root: String, _ path: Substring) -> [String] {
        var path = path
        var texts: [String] = []
        for _ in 0..<Self.depthMax {
            let filePath = [root, String(path), file].filter { !$0.isEmpty }.joined(separator: "/")
            if let text = Self.readText(filePath) { texts.append(text) }
            guard !path.isEmpty else { break }
            path = path.lastIndex(of: "/").map { path[..<$0] } ?? ""
        }
        return texts
    }

    static func readText(_ path: String) -> String? {
        try? ConfigurationFile.readText(path: path, bytesMax: fileBytesMax)
    }
}
