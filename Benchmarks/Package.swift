// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that nobody who only uses Causeway builds a benchmark or needs what it compares with.
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
            // As the worker around the core is built.
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
            // As the worker around the transport is built.
            swiftSettings: settings + [
                .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))
            ]
        ),
    ],
    cxxLanguageStandard: .cxx17
)
