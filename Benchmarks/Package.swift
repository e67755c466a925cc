// swift-tools-version: 6.2
import PackageDescription

// A separate package, so that users of Causeway do not build the benchmarks and do not need simdjson.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "causeway-benchmarks",
    dependencies: [
        .package(name: "causeway", path: "..")
    ],
    targets: [
        // Needs Debian's libsimdjson-dev.
        .target(
            name: "CSimdjson",
            path: "CSimdjson",
            cxxSettings: [.unsafeFlags(["-O3"])],
            linkerSettings: [.linkedLibrary("simdjson")]
        ),
        .target(name: "CAllocationCount", path: "CAllocationCount", cSettings: [.unsafeFlags(["-O2"])]),
        .target(name: "CTimerDescriptor", path: "CTimerDescriptor"),
        .executableTarget(
            name: "JSONBenchmark",
            dependencies: ["CSimdjson", "CAllocationCount", .product(name: "LiveActivity", package: "causeway")],
            path: "JSONBenchmark",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "DeliveryBenchmark",
            dependencies: [
                "CAllocationCount",
                .product(name: "Delivery", package: "causeway"),
                .product(name: "LiveActivity", package: "causeway"),
            ],
            path: "DeliveryBenchmark",
            exclude: ["innings.jsonl"],
            // The core is measured as in the worker, whose release builds do not check exclusive access either.
            swiftSettings: settings + [
                .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
            ]
        ),
        // Needs redis-server and redis-cli.
        .executableTarget(
            name: "RedisBenchmark",
            dependencies: [
                .product(name: "ActivityStore", package: "causeway"),
                .product(name: "LiveActivity", package: "causeway"),
                .product(name: "Numbers", package: "causeway"),
                .product(name: "Reactor", package: "causeway"),
                .product(name: "Redis", package: "causeway"),
            ],
            path: "RedisBenchmark",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "causeway-bench",
            dependencies: [
                "CAllocationCount", "CTimerDescriptor",
                .product(name: "APNs", package: "causeway"),
                .product(name: "APNsSimulator", package: "causeway"),
                .product(name: "Reactor", package: "causeway"),
            ],
            path: "SendBenchmark",
            // The APNs client is measured as in the worker, whose release builds do not check exclusive access either.
            swiftSettings: settings + [
                .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
            ]
        ),
    ],
    cxxLanguageStandard: .cxx17
)
