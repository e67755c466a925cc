import Foundation
import Testbed
import Testing

@testable import CausewayWorker

@Suite("The number of processors that a process may use")
struct ProcessorLimitTests {
    /// Files in a temporary directory that imitate Linux's hierarchy of control groups.
    private final class ControlGroupFiles {
        private let directory: TemporaryDirectory
        var url: URL { directory.url }

        init(member: String, quotas: [String: String]) throws {
            directory = try TemporaryDirectory()
            for (group, quota) in quotas {
                let directory = url.appendingPathComponent("root\(group)")
                try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
                try "\(quota)\n"
                    .write(to: directory.appendingPathComponent("cpu.max"), atomically: true, encoding: .utf8)
            }
            try member.write(to: url.appendingPathComponent("self"), atomically: true, encoding: .utf8)
        }

        var limit: ProcessorLimit {
            ProcessorLimit(
                groups: ControlGroups(
                    version2Root: url.appendingPathComponent("root").path,
                    version1MemoryRoot: "/nowhere",
                    membershipFile: url.appendingPathComponent("self").path
                ),
                statusFile: "/nowhere"
            )
        }
    }

    /// The number of the machine's processors. The tests may be restricted to some of them.
    private static let machineProcessors = Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))

    @Test(
        arguments: [
            ("50000 100000", 1), ("100000 100000", 1), ("100001 100000", 2), ("99900000 100000", .max),
            ("max 100000", .max), ("1 1000000", 1), ("", .max), ("x y", .max), ("0 0", .max), ("-5 100000", .max),
            ("9223372036854775807 1", .max), ("99999999999999999999 1", .max), ("100000", .max),
        ] as [(String, Int)]
    )
    func `The quota is rounded up, and never exceeds the processors`(text: String, processors: Int) throws {
        let groups = try ControlGroupFiles(member: "0::/\n", quotas: ["": text])
        #expect(groups.limit.processorCount == min(processors, Self.machineProcessors))
    }

    @Test func `The smallest quota among a control group and its parents counts`() throws {
        let member = "12:cpu:/old\n0::/pods/worker\n"
        let outer = try ControlGroupFiles(
            member: member,
            quotas: ["": "max 1", "/pods": "1 1", "/pods/worker": "max 1"]
        )
        #expect(outer.limit.processorCount == 1)
        let inner = try ControlGroupFiles(member: member, quotas: ["/pods/worker": "1 2", "/pods": "9 1"])
        #expect(inner.limit.processorCount == 1)
        let other = try ControlGroupFiles(member: member, quotas: ["/other": "1 1", "/pods/worker/below": "1 1"])
        #expect(other.limit.processorCount == Self.machineProcessors)
    }

    @Test func `Without control groups of version 2 there is no quota`() throws {
        #expect(
            try ControlGroupFiles(member: "4:cpu:/a\n", quotas: ["": "1 1"]).limit.processorCount
                == Self.machineProcessors
        )
        let unknown = ProcessorLimit(
            groups: ControlGroups(version2Root: "/nowhere", version1MemoryRoot: "/nowhere", membershipFile: "/nowhere"),
            statusFile: "/nowhere"
        )
        #expect(unknown.processorCount == Self.machineProcessors)
    }

    @Test(arguments: [
        ("Cpus_allowed:\t3", 2), ("Name:\tx\nCpus_allowed:\t1\nCpus_allowed_list:\t0", 1),
        ("Cpus_allowed:\tff,00000000,00f0f000", 16), ("Cpus_allowed:\t0", machineProcessors),
        ("Cpus_allowed_list:\t0", machineProcessors),
    ])
    func `The affinity mask has a bit for each processor`(status: String, processors: Int) throws {
        let groups = try ControlGroupFiles(member: "", quotas: [:])
        let file = groups.url.appendingPathComponent("status")
        try "\(status)\n".write(to: file, atomically: true, encoding: .utf8)
        var limit = groups.limit
        limit.statusFile = file.path
        #expect(limit.processorCount == processors)
    }
}
